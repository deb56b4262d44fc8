import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RawClient } from '../support/raw-client.ts'
import { AnswerFuzzer } from './fuzz-answers.ts'
import { isLawful } from './fuzz-requests.ts'
import { keptRequests, keptResponses } from './kept-cases.ts'

let fuzzer: AnswerFuzzer

beforeAll(async () => {
  fuzzer = await AnswerFuzzer.start()
})
afterAll(() => fuzzer.stop())

describe('upstream responses that were once forwarded wrongly, or nearly', () => {
  test.each(keptResponses)('%s', async (name, kept) => {
    const { outcome, breach } = await fuzzer.exchange(name, kept, kept.client)
    expect({ outcome, breach }).toEqual({ outcome: kept.outcome, breach: null })
    expect(fuzzer.faults()).toEqual([])
  })
})

describe('requests that were once parsed wrongly, or nearly', () => {
  test.each(keptRequests)('%s', async (_name, kept) => {
    const { world } = fuzzer
    const { secret } = await world.issue()
    world.upstream.reset()
    const client = new RawClient(world.gateway.urls.gateway)
    client.send(kept.bytes.replaceAll('{key}', secret))
    const answers = await client.untilClosed()
    expect(answers.map(({ status }) => status)).toEqual(kept.statuses)
    expect(world.upstream.requests.filter(request => !isLawful(request, secret))).toEqual([])
    expect(fuzzer.faults()).toEqual([])
  })
})
