package main

type providerCmd struct{}

func (providerCmd) Run() error { return nil }
