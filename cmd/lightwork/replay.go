package main

type replayCmd struct{}

func (replayCmd) Run() error { return nil }
