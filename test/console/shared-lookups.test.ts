import { expect, test } from 'vitest'
import { SharedLookups } from '../../src/console/key-service/shared-lookups.ts'
import { settled } from '../support/until.ts'

const waiting = new AbortController().signal

/** Lookups whose queries the test answers, each by the version that it gives. */
function lookupsAnsweredBy() {
  const queries: { readonly digests: readonly string[]; answer(version: number): Promise<void> }[] = []
  const lookups = new SharedLookups<string>(digests => {
    const { promise, resolve } = Promise.withResolvers<(digest: string) => string>()
    const answer = (version: number) => {
      resolve(digest => `${digest}${version}`)
      return settled()
    }
    queries.push({ digests, answer })
    return promise
  })
  return { lookups, queries }
}

test('a key that many gateways ask for at once is looked up once', async () => {
  const { lookups, queries } = lookupsAnsweredBy()
  const first = [lookups.find(['x'], waiting), lookups.find(['y'], waiting)]
  const others = Array.from({ length: 50 }, () => lookups.find(['a', 'b'], waiting))
  await queries[0]?.answer(1)
  await queries[2]?.answer(2)
  expect(queries.map(({ digests }) => digests)).toEqual([['x'], ['y'], ['a', 'b']])
  expect(new Set((await Promise.all(others)).flat())).toEqual(new Set(['a2', 'b2']))
  await queries[1]?.answer(1)
  expect(await Promise.all(first)).toEqual([['x1'], ['y1']])
})

test('a request is never answered by a query that began before it, which may not see a change that it is after', async () => {
  const { lookups, queries } = lookupsAnsweredBy()
  const before = lookups.find(['a'], waiting)
  const after = lookups.find(['a'], waiting)
  await queries[0]?.answer(1)
  await queries[1]?.answer(2)
  expect([await before, await after]).toEqual([['a1'], ['a2']])
})

test('a key that only closed connections asked for is not looked up', async () => {
  const { lookups, queries } = lookupsAnsweredBy()
  const begun = [lookups.find(['x'], waiting), lookups.find(['y'], waiting)]
  const gateway = new AbortController()
  const abandoned = lookups.find(['a', 'b'], gateway.signal)
  const other = lookups.find(['b'], waiting)
  gateway.abort()
  expect(await abandoned).toBeNull()
  for (const query of [...queries]) await query.answer(1)
  expect(queries.at(-1)?.digests).toEqual(['b'])
  await queries.at(-1)?.answer(2)
  expect(await other).toEqual(['b2'])
  await Promise.all(begun)
})

test('a connection that closes during its query leaves the key to those that ask for it later', async () => {
  const { lookups, queries } = lookupsAnsweredBy()
  const gateway = new AbortController()
  const begun = [lookups.find(['a'], gateway.signal), lookups.find(['x'], waiting)]
  const later = lookups.find(['a'], waiting)
  gateway.abort()
  for (const query of [...queries]) await query.answer(1)
  await queries[2]?.answer(2)
  expect(await Promise.all([...begun, later])).toEqual([null, ['x1'], ['a2']])
})

test('a query that fails fails only its own requests', async () => {
  let isDown = true
  const lookups = new SharedLookups<string>(async () => {
    if (isDown) throw new Error('down')
    return digest => digest
  })
  await expect(lookups.find(['a'], waiting)).rejects.toThrow('down')
  isDown = false
  expect(await lookups.find(['a'], waiting)).toEqual(['a'])
})

test('a query has at most 1,000 keys', async () => {
  const sizes: number[] = []
  const lookups = new SharedLookups<string>(async digests => {
    sizes.push(digests.length)
    return digest => digest
  })
  const some = (from: number) => Array.from({ length: 250 }, (_, at) => `${from + at}`)
  await Promise.all(Array.from({ length: 10 }, (_, at) => lookups.find(some(at * 250), waiting)))
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(2_500)
})
