#!/usr/bin/env bash
# SoftHSM2, OpenSC's pkcs11-tool and a C compiler for hanging-module.c, from Debian.
. "$(dirname "$0")/../../sinks/lib.sh"
deb softhsm2 opensc gcc libc6-dev
