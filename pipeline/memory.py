"""The most memory a process ever had; only the standard library is imported to ask."""

import sys
from pathlib import Path


def peak_memory() -> int:
    """Return the most memory this process ever had, in bytes; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
