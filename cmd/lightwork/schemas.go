package main

type schemasCmd struct{}

func (schemasCmd) Run() error { return nil }
