package buyer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
)

// A job is bought: a provider is found, the job is ordered within a budget, paid,
// and verified. The market around it, a relay and a seller with play money, is in
// example_market_test.go.
func ExampleClient() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := newVillage(ctx, 1)
	defer market.close()

	client, err := buyer.New(market.config())
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

// A job is given to three providers. They commit to their results before they
// see anything of each other's, and those that agree are paid.
func ExampleClient_PlacePanel() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := newVillage(ctx, 3)
	defer market.close()

	client, err := buyer.New(market.config())
	if err != nil {
		log.Fatal(err)
	}
	list, err := client.Discover(ctx, "oa.embedding.v1", "")
	if err != nil {
		log.Fatal(err)
	}
	panel, err := client.PlacePanel(ctx, buyer.PanelOrder{
		SchemaID: "oa.embedding.v1", Input: []byte(`{"texts":["twelve chars"]}`),
		Seats: list, Rule: buyer.RuleMajority,
		MaxMsats: 75_000, // of all three together
	})
	if err != nil {
		log.Fatal(err)
	}
	panel, err = client.FollowPanel(ctx, panel.ID, nil)
	if err != nil {
		log.Fatal(err) // ErrNoConsensus: nobody was paid
	}
	fmt.Println(panel.Decision.Outcome, "-", panel.Decision.Reason)
	result, err := client.PanelResult(ctx, panel)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.State, len(result.Output) > 0)
	// Output:
	// agreed - 3 of 3 agree
	// done true
}
