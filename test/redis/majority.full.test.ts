import { describe, expect, test } from 'vitest'
import type { Endpoint } from '../../src/redis/endpoint.ts'
import { awaitMajority } from '../../src/redis/sentinels.ts'

const PAST: Endpoint = { host: '10.0.0.1', port: 6379 }
const PRESENT: Endpoint = { host: '10.0.0.2', port: 6379 }
const NEVER = new Promise<Endpoint>(() => {})

function later(endpoint: Endpoint): Promise<Endpoint> {
  return new Promise(resolve => setImmediate(() => resolve(endpoint)))
}

describe('of the replies of Sentinels', () => {
  test('the first one counts no more than any other', async () => {
    expect(await awaitMajority([Promise.resolve(PAST), later(PRESENT), later(PRESENT)])).toEqual(PRESENT)
  })

  test('a majority is enough: a silent Sentinel delays nothing', async () => {
    expect(await awaitMajority([NEVER, later(PRESENT), later(PRESENT)])).toEqual(PRESENT)
  })

  test('the most frequent one is used if there is no majority', async () => {
    const failed = () => Promise.reject<Endpoint>(new Error('refused'))
    expect(await awaitMajority([failed(), failed(), later(PRESENT)])).toEqual(PRESENT)
    const five = [failed(), failed(), Promise.resolve(PAST), later(PRESENT), later(PRESENT)]
    expect(await awaitMajority(five)).toEqual(PRESENT)
  })

  test('the most frequent one is not used where a majority is required: on the other side it may have been replaced', async () => {
    const failed = () => Promise.reject<Endpoint>(new Error('refused'))
    await expect(awaitMajority([failed(), failed(), later(PAST)], true)).rejects.toThrow(/^No majority/)
    expect(await awaitMajority([failed(), later(PRESENT), later(PRESENT)], true)).toEqual(PRESENT)
  })

  test('if there is none, the error gives the reason', async () => {
    const failed = () => Promise.reject<Endpoint>(new Error('connect ECONNREFUSED'))
    await expect(awaitMajority([failed(), failed()])).rejects.toThrow(/^No Sentinel names.*ECONNREFUSED$/)
  })
})
