module rival

go 1.23

toolchain go1.27.4
