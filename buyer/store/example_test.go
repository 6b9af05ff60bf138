package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/store"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// A whole buyer: a key, a database, the relays, a wallet, and one job. The market around
// it is a relay and a seller, with play money.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	village := markettest.NewVillage(ctx, 1)
	defer village.Close()
	folder, err := os.MkdirTemp("", "buyer-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	key, err := relay.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	db, err := store.Open(ctx, folder)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	market, err := exchange.New(exchange.Config{
		Relays: []string{village.Relay()}, Blobs: []string{village.Blobs()}, Signer: key, AllowLoopback: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- market.Serve(ctx) }()
	defer func() { stop(); <-served }()

	client, err := buyer.New(buyer.Config{
		Signer: key, Cipher: key, Store: db.Store(), Market: market,
		Wallet: village.Wallet("buyer"), // your own: it pays invoices
		Limits: buyer.Limits{DayMsats: 50_000},
	})
	if err != nil {
		log.Fatal(err)
	}
	unfinished, err := db.Unfinished(ctx) // of the program's last life
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range unfinished {
		if _, err := client.FollowOrder(ctx, id, nil); err != nil {
			log.Print(err)
		}
	}

	order := buyer.Order{SchemaID: "oa.embedding.v1", Input: []byte(`{"texts":["twelve chars"]}`), MaxMsats: 25_000}
	candidates, err := client.Candidates(ctx, order)
	if err != nil || len(candidates) == 0 || candidates[0].Refusal != nil {
		log.Fatal("nobody can be asked: ", err)
	}
	purchase, err := client.PlaceOrder(ctx, order, candidates[0])
	if err == nil {
		purchase, err = client.FollowOrder(ctx, purchase.RequestID, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
	budget, err := db.Store().BudgetOf(ctx, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(purchase.State, "for", budget.SpentMsats, "msats")
	// Output:
	// done for 21000 msats
}
