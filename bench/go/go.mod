module rival

go 1.23
