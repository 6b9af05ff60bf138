package main

type configCmd struct{}

func (configCmd) Run() error { return nil }
