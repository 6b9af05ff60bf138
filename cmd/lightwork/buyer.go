package main

type buyerCmd struct{}

func (buyerCmd) Run() error { return nil }
