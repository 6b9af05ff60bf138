package main

type agentsCmd struct{}

func (agentsCmd) Run() error { return nil }
