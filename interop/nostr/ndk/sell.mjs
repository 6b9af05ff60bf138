// Sells to a Lightwork buyer with NDK's DVM classes.
import { NDKDVMJobResult, NDKDVMRequest, NDKEvent } from '@nostr-dev-kit/ndk'
import { connect, listen } from './client.mjs'
import { announcement, domain, KIND, options, say, SCHEMA, Sold, Wallet } from '../market.mjs'

const price = 3000
const { ndk, user } = await connect()
const wallet = new Wallet(options.ledger)
await wallet.open(options.name)
const node = (await wallet.call('Node')).pub_key

async function feedback(request, status, content = '', more = []) {
  const event = request.createFeedback(status)
  event.tags.push(...more)
  event.content = content
  await event.publish()
}

async function serve(event) {
  const request = NDKDVMRequest.from(event)
  const sold = new Sold(request.rawEvent(), user.pubkey)
  if (sold.mode === 'prepay') {
    const quote = sold.quote(price, node)
    const bolt11 = await sold.invoice(wallet, price)
    // NdkDvmJobFeedbackStatus.PayReq is "payment_required"; NIP-90 spells it so:
    await feedback(request, 'payment-required', quote, [['amount', String(price), bolt11], domain('quote')])
    await wallet.paid(sold.paymentHash)
    say('earned', { msats: price })
  }
  if (sold.mode === 'free') await feedback(request, 'processing', sold.quote(0, null), [domain('quote')])
  else await feedback(request, 'processing')
  const output = sold.result()
  const result = new NDKDVMJobResult(ndk)
  result.jobRequest = request
  result.result = output
  result.setAmount(sold.mode === 'free' ? 0 : price)
  result.tags.push(...sold.bindings(output))
  await result.publish()
  await feedback(request, 'success')
  say('delivered', { request: request.id })
}

process.on('SIGINT', () => process.exit(0))
await listen(ndk, { kinds: [KIND.request], '#p': [user.pubkey] }, serve)
const offer = new NDKEvent(ndk, { kind: KIND.announcement, content: announcement('ndk', price, node) })
offer.tags.push(['d', 'outside'], ['k', '5050'], ['t', SCHEMA], domain('announcement'))
await offer.publish()
say('selling', { pubkey: user.pubkey })
