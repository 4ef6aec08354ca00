"""Ansible inventory plugin: every node of every engine that answers, read from the engines' own labels."""

from __future__ import annotations

DOCUMENTATION = """
    name: gpuprov
    short_description: Nodes created by gpuprov
    description:
        - Lists the nodes of all clusters on all container engines of this machine that respond, and of the hosts that
          C(gpuprov host add) has remembered.
        - An engine that is installed and does not respond within 10 seconds is omitted, with a warning.
        - Creates groups for clusters, roles, engines and GPU models, such as C(cluster_lab), C(role_slurm),
          C(engine_lxd) and C(gpu_nvidia_geforce_gtx_1080).
        - A host that does not answer within 10 seconds is omitted too.
        - A node name that exists on two engines or machines is omitted, with a warning.
        - The file name must end in C(gpuprov.yml) or C(gpuprov.yaml).
    author: gpuprov (@gpuprov)
    requirements:
        - gpuprov, installed for the Python that runs Ansible
    options:
        plugin:
            description: Marks the file as a source for this plugin.
            type: str
            required: true
            choices: [gpuprov.cluster.gpuprov]
        cluster:
            description: Lists only the nodes of this cluster. The default is the nodes of all clusters.
            type: str
    extends_documentation_fragment:
        - constructed
        - inventory_cache
    notes:
        - Host variables are RV(ignore:ansible_host), RV(ignore:gpuprov_address), RV(ignore:gpuprov_private_address),
          RV(ignore:gpuprov_engine), RV(ignore:gpuprov_role), RV(ignore:gpuprov_cluster), RV(ignore:gpuprov_status),
          RV(ignore:gpuprov_gpus) (a list of uuid, label, index, minor, device, pci, mig, model, memory_bytes,
          compute_capability),
          RV(ignore:gpuprov_driver), RV(ignore:gpuprov_sharing), RV(ignore:gpuprov_simulated), RV(ignore:gpuprov_image),
          RV(ignore:gpuprov_host), RV(ignore:gpuprov_through) (the host through which the node is reached).
"""

EXAMPLES = """
# All nodes:
plugin: gpuprov.cluster.gpuprov

---
# The nodes of one cluster:
plugin: gpuprov.cluster.gpuprov
cluster: lab

---
# Custom groups, and a cache of ten minutes:
plugin: gpuprov.cluster.gpuprov
strict: true
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/gpuprov-inventory
cache_timeout: 600
compose:
    gpu_count: gpuprov_gpus | length
groups:
    on_real_gpus: not gpuprov_simulated
keyed_groups:
    - prefix: status
      key: gpuprov_status
"""

import sys
from contextlib import closing
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.plugins.loader import connection_loader, shell_loader

CONNECTION = "gpuprov.cluster.gpuprov"
NO_GPUPROV = """gpuprov is not installed for the Python that runs Ansible
evidence: {python}: {error}
fix: {python} -m pip install gpuprov"""


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]  # Ansible has no type information
    """Reads the engines, or Ansible's cache of what they said."""

    NAME = "gpuprov.cluster.gpuprov"

    def verify_file(self, path: str) -> bool:
        """Whether this file is for this plugin."""
        return bool(super().verify_file(path)) and path.endswith(("gpuprov.yml", "gpuprov.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:  # noqa: ANN401, FBT001, FBT002 - Ansible's signature
        """Add hosts, variables and groups."""
        super().parse(inventory, loader, path, cache=cache)
        self._read_config_data(path)
        cluster = self.get_option("cluster") or ""
        key = f"{self.get_cache_key(path)}{cluster}"
        use_cache = self.get_option("cache")
        found = self._cache.get(key) if use_cache and cache else None
        if found is None:
            found = self._ask(cluster)
            if use_cache:
                self._cache[key] = found
        for warning in found["warnings"]:
            self.display.warning(warning)
        self._add(found)
        # Ansible forks for each task of each node: a plugin that is read here is not read again in every fork.
        connection_loader.get(CONNECTION, class_only=True)
        shell_loader.get("sh", class_only=True)

    def _ask(self, cluster: str) -> dict[str, Any]:
        try:
            from gpuprov.core.errors import GpuprovError
        except ImportError as error:
            raise AnsibleParserError(NO_GPUPROV.format(python=sys.executable, error=error)) from error
        from gpuprov.core.names import check_cluster_name
        from gpuprov.core.reporter import Silent
        from gpuprov.fleet.fleet import Fleet
        from gpuprov.link.hosts import HostsBySsh
        from gpuprov.link.hosts_file import read_machines
        from gpuprov.link.members import MemberProcesses
        from gpuprov.link.places import ensure_places
        from gpuprov.machine.local import LocalHost
        from gpuprov.shapes.base import write
        from gpuprov.stories.inventory import read_inventory

        try:
            name = check_cluster_name(cluster) if cluster else ""
            places = ensure_places()
            with closing(MemberProcesses(places)) as members:
                way = HostsBySsh(members=members, reporter=Silent())
                fleet = Fleet(
                    here=LocalHost(),
                    others=read_machines(places.inventory),
                    connect=lambda: way,
                    reporter=Silent(),
                )
                inventory = read_inventory(fleet, name)
        except GpuprovError as error:
            raise AnsibleParserError(str(error)) from error
        # For the forks as well: a task on a node of these engines needs the streams, which a list of nodes does not.
        if not {"engine_lxd", "engine_incus"}.isdisjoint(inventory.groups):
            import gpuprov.drivers.lxd.streams  # noqa: F401
        return {
            "hosts": {name: write(variables) for name, variables in inventory.hosts.items()},
            "groups": {group: list(names) for group, names in inventory.groups.items()},
            "warnings": list(inventory.warnings),
        }

    def _add(self, found: dict[str, Any]) -> None:
        strict = self.get_option("strict")
        for group in found["groups"]:
            self.inventory.add_group(group)
        for name, variables in found["hosts"].items():
            self.inventory.add_host(name)
            for key, value in variables.items():
                self.inventory.set_variable(name, key, value)
            self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)
        for group, names in found["groups"].items():
            for name in names:
                self.inventory.add_child(group, name)
