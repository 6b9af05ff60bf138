package main

type backupCmd struct{}

func (backupCmd) Run() error { return nil }
