"""Packages that are called otherwise than what is imported of them."""

from __future__ import annotations

from typing import Final

_PACKAGES: Final = {
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "gitpython",
    "hydra": "hydra-core",
    "jwt": "pyjwt",
    "mpl_toolkits": "matplotlib",
    "psycopg2": "psycopg2-binary",
    "pynvml": "nvidia-ml-py",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}


def package_of(module: str) -> str:
    """The package to install for a module, by its first name; most have the module's."""
    return _PACKAGES.get(module, module)
