# make dev: builds the extension into python/megengine of this checkout (see tools/dev.sh).
.PHONY: dev
dev:
	tools/dev.sh dev
