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
