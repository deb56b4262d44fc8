import { describe, expect, test } from 'vitest'
import type { TierResult } from '../../../src/keys/tiers/key-store.ts'
import { withBreaker } from '../../../src/keys/tiers/resilience.ts'
import { ChaosTier, outOfOrder } from '../../support/chaos-tier.ts'
import { digestNo, grantOf } from '../../support/key-records.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { settled } from '../../support/until.ts'

const KEY = digestNo(1)
const POISON = digestNo(666)
const FOUND: TierResult = { kind: 'found', grant: grantOf({ version: 1 }) }
const UNUSABLE: TierResult = {
  kind: 'failed',
  error: new Error('The key service responded with status 500'),
  why: 'unusable',
}

function world() {
  const clock = new ManualClock()
  const tier = new ChaosTier('key_service', digest => (digest === POISON ? UNUSABLE : FOUND))
  const breaker = withBreaker(tier, { failures: 3, openMs: 500 }, clock)
  const lookUp = async (digest = KEY) => {
    const answer = await breaker.get(digest)
    return answer.kind === 'failed' ? answer.why : answer.kind
  }
  const lookUpOften = async (count: number, digest = KEY) => {
    const answers: string[] = []
    for (let asked = 0; asked < count; asked++) {
      answers.push(await lookUp(digest))
      clock.advance(20)
    }
    return answers
  }
  return { clock, tier, breaker, lookUp, lookUpOften }
}

describe('an unreachable tier', () => {
  test('is skipped after several consecutive failures, and the result is returned at once', async () => {
    const { tier, breaker, lookUpOften } = world()
    tier.fails()
    expect(await lookUpOften(5)).toEqual(['unreachable', 'unreachable', 'unreachable', 'skipped', 'skipped'])
    expect([tier.asked, breaker.isOpen]).toEqual([3, true])
  })

  test('is skipped only after consecutive failures: a result in between resets the count', async () => {
    const { tier, lookUpOften } = world()
    for (let round = 0; round < 10; round++) {
      tier.fails()
      await lookUpOften(2)
      tier.answers()
      await lookUpOften(1)
    }
    expect(tier.asked).toBe(30)
  })

  test('is probed once at a time, without a request and without delaying one', async () => {
    const { clock, tier, breaker, lookUp, lookUpOften } = world()
    tier.fails()
    await lookUpOften(3)
    tier.stalls()
    breaker.watch()
    clock.advance(479)
    breaker.watch()
    expect(tier.asked).toBe(3)
    clock.advance(1)
    for (let look = 0; look < 5; look++) breaker.watch()
    expect(tier.asked).toBe(4)
    expect(await lookUp()).toBe('skipped')
    tier.release()
    await settled()
    tier.answers()
    expect([breaker.isOpen, await lookUp()]).toEqual([false, 'found'])
  })

  test('is skipped again for the whole time after a failed probe', async () => {
    const { clock, tier, breaker, lookUpOften } = world()
    tier.fails()
    await lookUpOften(3)
    clock.advance(480)
    for (let probe = 1; probe <= 4; probe++) {
      breaker.watch()
      await settled()
      clock.advance(499)
      breaker.watch()
      expect([tier.asked, breaker.isOpen]).toEqual([3 + probe, true])
      clock.advance(1)
    }
  })

  test('is asked again as soon as a late result arrives', async () => {
    const { tier, breaker, lookUpOften } = world()
    tier.stalls()
    const early = breaker.get(KEY)
    tier.fails()
    await lookUpOften(3)
    tier.release()
    expect([(await early).kind, breaker.isOpen]).toEqual(['found', false])
  })

  test('has failed once if many lookups fail within a moment, which a pause of this process may cause', async () => {
    const { clock, tier, breaker } = world()
    for (let moment = 1; moment <= 3; moment++) {
      tier.stalls()
      const together = Array.from({ length: 50 }, () => breaker.get(KEY))
      while (tier.waiting.length > 0) tier.release(outOfOrder())
      await Promise.all(together)
      expect(breaker.isOpen).toBe(moment === 3)
      clock.advance(20)
    }
  })
})

describe('a key that a tier cannot return', () => {
  test('fails alone after any number of lookups, and opens no circuit', async () => {
    const { tier, breaker, lookUp, lookUpOften } = world()
    for (let round = 0; round < 20; round++) {
      expect(await lookUpOften(5, POISON)).toEqual(Array.from({ length: 5 }, () => 'unusable'))
      expect(await lookUp()).toBe('found')
    }
    expect([tier.asked, breaker.isOpen]).toEqual([120, false])
  })

  test('closes the circuit if it is the probe: the tier did respond', async () => {
    const { clock, tier, breaker, lookUp, lookUpOften } = world()
    tier.fails()
    await lookUpOften(3, POISON)
    tier.answers()
    clock.advance(500)
    breaker.watch()
    await settled()
    expect([breaker.isOpen, await lookUp()]).toEqual([false, 'found'])
  })

  test('does not open the circuit if the tier throws, against its contract', async () => {
    const { tier, breaker, lookUpOften } = world()
    tier.throws()
    expect(await lookUpOften(10)).toEqual(Array.from({ length: 10 }, () => 'unusable'))
    expect(breaker.isOpen).toBe(false)
  })
})

test('a tier that responds is not probed', async () => {
  const { tier, breaker, lookUp } = world()
  await lookUp()
  breaker.watch()
  expect(tier.asked).toBe(1)
})

test('any number of skipped lookups opens no circuit', async () => {
  const { clock, tier, breaker } = world()
  tier.stalls()
  for (let lookup = 0; lookup < 5; lookup++) {
    const skipped = breaker.get(KEY)
    tier.release({ kind: 'failed', error: new Error('Another server'), why: 'skipped' })
    await skipped
    clock.advance(20)
  }
  expect(breaker.isOpen).toBe(false)
})

test('a skipped lookup counts neither as a success nor as a failure', async () => {
  const { clock, tier, breaker, lookUpOften } = world()
  tier.fails()
  await lookUpOften(3)
  tier.stalls()
  const notAsked: TierResult = { kind: 'failed', error: new Error('Another server'), why: 'skipped' }
  for (let probe = 0; probe < 3; probe++) {
    clock.advance(500)
    breaker.watch()
    tier.release(notAsked)
    await settled()
    expect(breaker.isOpen).toBe(true)
  }
})
