package main

type walletCmd struct{}

func (walletCmd) Run() error { return nil }
