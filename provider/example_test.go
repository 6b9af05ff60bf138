package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// shouter answers every prompt in capitals.
type shouter struct{ key string }

// Tool names the tool that jobs run on; a job's plan says it before the run.
func (shouter) Tool(string) string { return "example/shout" }

// Run does one job. The provider has checked the input, and checks the result against
// the job type's schema before it is delivered. Nobody pays for a run that fails.
func (s shouter) Run(_ context.Context, r provider.Run) (provider.Outcome, error) {
	var in schemas.TextRequest
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return provider.Outcome{}, err
	}
	doc, err := json.Marshal(schemas.TextResult{
		Text: strings.ToUpper(in.Prompt), Provenance: schemas.Provenance{ModelID: "shouter", ProviderPubkey: s.key},
	})
	return provider.Outcome{Output: doc}, err
}

// A provider sells one job type. The runner does the jobs; the provider announces
// them, asks for the money, delivers, and signs the receipts.
func ExampleProvider() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 0)
	defer market.Close()

	cfg := market.ConfigOfSeller("shouter") // a key, a store, a relay and a wallet
	cfg.Runner = shouter{cfg.Signer.PublicKey()}
	cfg.Offers = []provider.Offer{{
		SchemaID: "oa.text_generation.v1", Modes: []receipts.Mode{receipts.ModePostpay}, BaseMsats: 5_000,
	}}
	p, err := provider.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(serving) }()

	purchase := market.BuyOne(cfg.Signer.PublicKey(), "oa.text_generation.v1", `{"prompt":"good morning"}`)
	var out schemas.TextResult
	if err := json.Unmarshal(purchase.Output, &out); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Text, "for", purchase.Payment.AmountMsats, "msats")

	stop() // jobs that are open go on at the next Serve
	fmt.Println("ended:", <-ended)
	// Output:
	// GOOD MORNING for 5000 msats
	// ended: <nil>
}

// The price of a job is known before it runs: it is the most that the request allows.
// Buyer and provider compute it from the same table. Of the first one, 1000 msats are
// the base, 1000 the output and 15 the input.
func ExampleOffer() {
	offer := provider.Offer{
		SchemaID: "oa.text_generation.v1", BaseMsats: 1_000,
		InputMsats: 500, OutputMsats: 2_000, // for 1000 tokens
		MaxOutputTokens: 4_000,
	}
	job, _ := schemas.Lookup(offer.SchemaID)
	for _, doc := range []string{
		`{"prompt":"Write a poem.","max_tokens":500}`,
		`{"prompt":"Write a poem."}`, // as long as the offer allows
		`{"prompt":"Write a novel.","max_tokens":100000}`,
	} {
		req, err := job.ParseRequest([]byte(doc))
		if err != nil {
			log.Fatal(err)
		}
		if msats, ok := offer.Table().For(req); ok {
			fmt.Println(msats, "msats")
		} else {
			fmt.Println("not sold: it wants more output than the offer has")
		}
	}
	// Output:
	// 2015 msats
	// 9013 msats
	// not sold: it wants more output than the offer has
}

// An operator who wants to stop drains first: no new job is taken, open ones are
// finished, and Serve ends when none is left.
func ExampleProvider_Serve_drain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 0)
	defer market.Close()

	cfg := market.ConfigOfSeller("shouter")
	cfg.Runner = shouter{cfg.Signer.PublicKey()}
	cfg.Admission = func() provider.Admission { return provider.AdmissionDraining } // asked again and again
	p, err := provider.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	err = p.Serve(ctx)
	left, readErr := provider.LeftOpen(ctx, cfg.Store)
	fmt.Println(errors.Is(err, provider.ErrDrained), left.Empty(), readErr)
	// Output: true true <nil>
}
