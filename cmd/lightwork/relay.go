package main

type relayCmd struct{}

func (relayCmd) Run() error { return nil }
