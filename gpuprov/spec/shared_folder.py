"""The folder that all nodes of a cluster share, and the account to which it belongs in the nodes."""

from __future__ import annotations

from typing import Final

SHARED: Final = "/shared"  # in nodes
PLACE: Final = "/srv/gpuprov"  # on the host: a cluster's own folder is below it

ACCOUNT: Final = "work"  # that jobs run as
# The same number in every image, as user and as group. Debian gives 100 to 999 to packages and 1000 to 59999 to people,
# from the lower end; systemd takes 60001 to 60513 and 61184 to 65519, and Debian again 60000 to 64999. Directory
# services number people from the lower end too. It must be less than 65536, the ids that an unprivileged node has.
ACCOUNT_UID: Final = 59400
