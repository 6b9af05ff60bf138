package panel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
)

// A job is given to three providers. They commit to their results before they
// see anything of each other's, and those that agree are paid.
func ExampleClient() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 3)
	defer market.Close()

	config := market.Config()
	client, err := buyer.New(config)
	if err != nil {
		log.Fatal(err)
	}
	panels, err := panel.New(panel.Config{Buyer: client, Store: market.Store, Market: config.Market})
	if err != nil {
		log.Fatal(err)
	}
	list, err := client.Discover(ctx, "oa.embedding.v1", "")
	if err != nil {
		log.Fatal(err)
	}
	p, err := panels.Place(ctx, panel.Order{
		SchemaID: "oa.embedding.v1", Input: []byte(`{"texts":["twelve chars"]}`),
		Members: list, Rule: panel.RuleMajority,
		MaxMsats: 75_000, // of all three together
	})
	if err != nil {
		log.Fatal(err)
	}
	p, err = panels.Follow(ctx, p.ID, nil)
	if err != nil {
		log.Fatal(err) // ErrNoConsensus: nobody was paid
	}
	fmt.Println(p.Decision.Outcome, "-", p.Decision.Reason)
	result, err := panels.Result(ctx, p)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.State, len(result.Output) > 0)
	// Output:
	// agreed - 3 of 3 agree
	// done true
}

// A text is written by three providers, and a judge chooses one: it gets its price,
// the others what they ask for the attempt. The judge would ask a language model;
// what it is shown are the task and the answers, in an order of chance, without
// their makers.
func ExampleClient_judge() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	market := markettest.NewVillage(ctx, 3)
	defer market.Close()

	config := market.Config()
	config.MaxEngagementMsats = 1_000
	judge := func(_ context.Context, question string) (string, error) {
		var asked struct {
			Candidates []struct {
				Number int
				Answer struct{ Text string }
			}
		}
		document := question[strings.LastIndex(question, "\n{\"task\""):]
		if err := json.Unmarshal([]byte(document), &asked); err != nil {
			return "", err
		}
		for _, c := range asked.Candidates {
			if strings.Contains(c.Answer.Text, "seller-2") {
				return fmt.Sprintf(`{"choice": %d, "why": "it is the best"}`, c.Number), nil
			}
		}
		return `{"choice": 0, "why": "none is good"}`, nil
	}
	client, err := buyer.New(config)
	if err != nil {
		log.Fatal(err)
	}
	panels, err := panel.New(panel.Config{Buyer: client, Store: market.Store, Market: config.Market, Judge: judge})
	if err != nil {
		log.Fatal(err)
	}
	list, err := client.Discover(ctx, "oa.text_generation.v1", "")
	if err != nil {
		log.Fatal(err)
	}
	p, err := panels.Place(ctx, panel.Order{
		SchemaID: "oa.text_generation.v1", Input: []byte(`{"prompt":"Say something."}`),
		Members: list, Rule: panel.RuleJudge,
		MaxMsats: 30_000, // of all three together: one price, three fees, and routing
	})
	if err != nil {
		log.Fatal(err)
	}
	p, err = panels.Follow(ctx, p.ID, nil)
	switch {
	case errors.Is(err, panel.ErrNoConsensus):
		log.Fatal("no result is paid: ", p.Decision.Reason)
	case err != nil:
		log.Fatal("still open, follow it again later: ", err)
	}
	result, err := panels.Result(ctx, p)
	if err != nil {
		log.Fatal(err)
	}
	var text struct{ Text string }
	if err := json.Unmarshal(result.Output, &text); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Tier()+":", text.Text)
	fmt.Println("paid", result.Payment.AmountMsats, "msats for it, and", result.Engagement.Payment.AmountMsats, "for the attempt")
	// Output:
	// judge: An answer by seller-2
	// paid 21000 msats for it, and 1000 for the attempt
}
