package main

type initCmd struct{}

func (initCmd) Run() error { return nil }
