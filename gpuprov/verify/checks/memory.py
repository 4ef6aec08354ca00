"""Whether a GPU's memory and its own record of itself are sound."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.verify.checks.readings import LOOK, gpu_rule, judge_each_gpu
from gpuprov.verify.finding import failed, passed
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.checks.readings import Values
    from gpuprov.verify.models import Expectation, Finding, Observation

# NVML's recovery actions (field 230), each with the situation of its fix
_RECOVERY = {
    1: ("reset the GPU", ""),
    2: ("reboot the host", "reboot"),
    3: ("drain peer-to-peer work, then reset", ""),
    4: ("drain the GPU and reset it", ""),
    5: ("recover the IMEX domain", "imex"),
    6: ("reset the bus", "bus"),
    7: ("reboot the system", "reboot"),
}


def look_at_recovery(values: Values) -> Finding:
    """The driver asks for no repair."""
    action = values["recovery_action"]
    if action == 0:
        return passed("the driver requests no recovery action")
    what, fix = _RECOVERY.get(action, (f"recovery action {action}", LOOK))
    return failed(f"the driver requests: {what}" if action in _RECOVERY else f"the driver requests {what}", fix)


def look_at_ecc_mode(values: Values) -> Finding:
    """ECC is as it will be after the next reset."""
    current, pending = ("on" if mode else "off" for mode in values["ecc_mode"])
    if current != pending:
        return failed(f"ECC is {current}, but will be {pending} after the next reset")
    return passed(f"ECC is {current}")


def look_at_ecc(values: Values, *, shared: bool) -> Finding:
    """ECC is on where others use the GPU too: without it, a program can flip bits of theirs (GPUHammer).

    Source: NVIDIA's security notice on Rowhammer, July 2025, which asks for system-level ECC on shared GPUs.
    """
    text = f"ECC is {'on' if values['ecc_mode'][0] else 'off'}"
    if not shared:
        return passed(f"{text}; no other node uses this GPU")
    return passed(text) if values["ecc_mode"][0] else failed(f"{text}, and the node shares this GPU")


def judge_shared_ecc(expected: Expectation, seen: Observation) -> Finding:
    """By how the node holds its GPUs."""
    look = partial(look_at_ecc, shared=expected.sharing != "exclusive")
    return judge_each_gpu(("ecc_mode",), look, expected, seen)


def look_at_uncorrected(values: Values) -> Finding:
    """No bit was lost since the driver was loaded."""
    count = values["ecc_uncorrected"]
    return failed(f"{count} uncorrected ECC errors") if count else passed("0 uncorrected ECC errors")


def look_at_corrected(values: Values) -> Finding:
    """No bit had to be corrected since the driver was loaded."""
    count = values["ecc_corrected"]
    return failed(f"{count} corrected ECC errors") if count else passed("0 corrected ECC errors")


def look_at_sram(values: Values) -> Finding:
    """Errors in the caches stay below the GPU's own threshold."""
    if values["ecc_sram_exceeded"]:
        return failed("ECC errors in SRAM exceed the threshold")
    return passed("ECC errors in SRAM are below the threshold")


def look_at_retired(values: Values) -> Finding:
    """No page waits to be retired."""
    return (
        failed("page retirement is pending") if values["retired_pending"] else passed("no page retirement is pending")
    )


def look_at_remap_failure(values: Values) -> Finding:
    """No row could not be remapped."""
    corrected, uncorrected, _, failure = values["row_remap"]
    rows = f"{corrected + uncorrected} rows remapped"
    return failed(f"a row remapping failed; {rows}") if failure else passed(rows)


def look_at_remap_pending(values: Values) -> Finding:
    """No row waits to be remapped."""
    return failed("a row remapping is pending") if values["row_remap"][2] else passed("no row remapping is pending")


def look_at_inforom(_values: Values) -> Finding:
    """Its checksums hold; that they do not is an error code, which is no value."""
    return passed("the checksums are valid")


RULES = (
    gpu_rule("nvml-recovery", ("recovery_action",), look_at_recovery),
    gpu_rule("nvml-ecc-uncorrected", ("ecc_uncorrected",), look_at_uncorrected),
    gpu_rule("nvml-ecc-sram", ("ecc_sram_exceeded",), look_at_sram),
    gpu_rule("nvml-ecc-corrected", ("ecc_corrected",), look_at_corrected, severity="warning"),
    gpu_rule("nvml-ecc-mode", ("ecc_mode",), look_at_ecc_mode, severity="warning"),
    Rule(
        id="nvml-ecc-shared",
        layer="nvml",
        needs=("nvml-uuids",),
        judge=judge_shared_ecc,
        fact="nvml",
        severity="warning",
    ),
    gpu_rule("nvml-retired-pages", ("retired_pending",), look_at_retired),
    gpu_rule("nvml-remap-failure", ("row_remap",), look_at_remap_failure),
    gpu_rule("nvml-remap-pending", ("row_remap",), look_at_remap_pending),
    gpu_rule("nvml-inforom", ("inforom",), look_at_inforom),
)
