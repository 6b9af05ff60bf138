package main

type receiptsCmd struct{}

func (receiptsCmd) Run() error { return nil }
