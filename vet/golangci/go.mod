module github.com/fencelock/fencelock/vet/golangci

go 1.26.0

require (
	github.com/fencelock/fencelock/vet v0.1.0
	github.com/golangci/plugin-module-register v0.1.2
	golang.org/x/tools v0.52.0
)
