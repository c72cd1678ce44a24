"""Names and limits of the hub."""

DEFAULT_BRANCH_NAME = "master"
DEFAULT_GIT_HOST = "github.com"
DEFAULT_PROTOCOL = "HTTPS"
DEFAULT_CACHE_DIR = "~/.cache"

ENV_MGE_HOME = "MGE_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
ENV_TRUST = "MGE_HUB_TRUST"
ENV_CHECK_HASH = "MGE_HUB_CHECK_HASH"

HUBCONF = "hubconf.py"
HUBDEPENDENCY = "dependencies"

HTTP_READ_TIMEOUT = 120  # seconds
GIT_TIMEOUT = 1800  # seconds
MAX_BYTES = 2 << 30  # of a repository
MAX_FILES = 200_000
