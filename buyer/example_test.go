package buyer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
)

// A job is bought: a provider is found, the job is ordered within a budget, paid,
// and verified. The market around it is a relay and a seller, with play money.
func ExampleClient() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 1)
	defer market.Close()

	client, err := buyer.New(market.Config())
	if err != nil {
		log.Fatal(err)
	}
	list, err := client.Discover(ctx, "oa.embedding.v1", "")
	if err != nil || len(list) == 0 {
		log.Fatal("nobody sells embeddings: ", err)
	}
	purchase, err := client.Place(ctx, buyer.Order{
		Provider: list[0].Provider, Announced: &list[0], PayeeNode: list[0].PayeeNode,
		SchemaID: "oa.embedding.v1", Input: []byte(`{"texts":["twelve chars"]}`),
		MaxMsats: 25_000, // routing fees included
	})
	if err != nil {
		log.Fatal(err)
	}
	// From here on the purchase is stored: after a crash Follow goes on with it.
	purchase, err = client.Follow(ctx, purchase.RequestID, nil)
	switch {
	case errors.Is(err, buyer.ErrFailed):
		log.Fatal("not bought, and why: ", purchase.Reason)
	case err != nil:
		log.Fatal("still open, follow it again later: ", err)
	}
	fmt.Println("paid", purchase.Payment.AmountMsats, "msats")

	// What a stranger would say of it.
	bundle, err := client.Bundle(ctx, purchase.RequestID)
	if err != nil {
		log.Fatal(err)
	}
	report := receipts.Verify(bundle, receipts.Pins{Provider: purchase.Provider, Buyer: client.PublicKey()})
	fmt.Println("every required claim is proved:", report.ExitCode() == receipts.ExitProved)
	// Output:
	// paid 21000 msats
	// every required claim is proved: true
}

// Who sells a job, what each would charge for this very request, and why one would not
// be asked. Nothing is sent, and nothing is bought.
func ExampleClient_Candidates() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 2)
	defer market.Close()

	client, err := buyer.New(market.Config())
	if err != nil {
		log.Fatal(err)
	}
	order := buyer.Order{SchemaID: "oa.embedding.v1", Input: []byte(`{"texts":["twelve chars"]}`)}
	for _, order.MaxMsats = range []int64{25_000, 20_000} {
		list, err := client.Candidates(ctx, order)
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range list {
			var price *buyer.PriceError
			switch {
			case errors.As(c.Refusal, &price):
				fmt.Println("too dear by", price.PriceMsats-price.MaxMsats, "msats")
			case c.Refusal != nil:
				fmt.Println("not asked:", c.Refusal)
			default:
				fmt.Println(c.PriceMsats, "msats, mode", c.Mode)
			}
		}
	}
	// Output:
	// 21000 msats, mode hold
	// 21000 msats, mode hold
	// too dear by 1000 msats
	// too dear by 1000 msats
}

// A program that bought something ends before the result is there. The next one that
// has its store goes on with the purchase; nothing is paid twice.
func ExampleClient_Follow() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 1)
	defer market.Close()

	cfg := market.Config()
	first, err := buyer.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	list, err := first.Discover(ctx, "oa.embedding.v1", "")
	if err != nil || len(list) == 0 {
		log.Fatal("nobody sells embeddings: ", err)
	}
	purchase, err := first.Place(ctx, buyer.Order{
		Provider: list[0].Provider, SchemaID: "oa.embedding.v1", Input: []byte(`{"texts":["twelve chars"]}`), MaxMsats: 25_000,
	})
	if err != nil {
		log.Fatal(err)
	}
	life, end := context.WithCancel(ctx)
	defer end()
	purchase, err = first.Follow(life, purchase.RequestID, func(buyer.Progress) {
		end() // once the request is out
	})
	fmt.Println("stopped on the way:", err != nil && !purchase.State.Terminal())

	second, err := buyer.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	purchase, err = second.Follow(ctx, purchase.RequestID, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("now:", purchase.State, "for", purchase.Payment.AmountMsats, "msats")
	// Output:
	// stopped on the way: true
	// now: done for 21000 msats
}
