package main

type jobsCmd struct{}

func (jobsCmd) Run() error { return nil }
