#!/usr/bin/env bash
# SoftHSM2 and OpenSC's pkcs11-tool from Debian.
. "$(dirname "$0")/../../sinks/lib.sh"
deb softhsm2 opensc
