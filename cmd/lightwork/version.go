package main

import "fmt"

// version is set by the Makefile with -ldflags.
var version = "dev"

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c versionCmd) Run(s *streams) error {
	if c.JSON {
		return printJSON(s.out, map[string]string{"version": version})
	}
	_, err := fmt.Fprintln(s.out, "lightwork", version)
	return err
}
