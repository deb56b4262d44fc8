import { beforeEach, expect, test } from 'vitest'
import { AddressBook } from '../../../src/upstream/pool/connector.ts'

const at = (host: string, port = 80) => ({ host, port })
const hosts = (nowMs: number) => book.order(nowMs).map(({ host }) => host)
let book: AddressBook
beforeEach(() => {
  book = new AddressBook()
  book.replace([at('a'), at('b'), at('c')])
})

test('addresses rotate: each one comes first in turn', () => {
  expect([hosts(0), hosts(0), hosts(0), hosts(0)].map(([first]) => first)).toEqual(['a', 'b', 'c', 'a'])
})

test('an unreachable address comes last for ten seconds, and then rotates again', () => {
  book.failed(at('a'), 0)
  expect(hosts(0)).toEqual(['b', 'c', 'a'])
  expect([hosts(9_999), hosts(9_999)].map(order => order.at(-1))).toEqual(['a', 'a'])
  expect(book.stats(9_999)).toEqual({ usable: 2, avoided: 1 })
  expect(hosts(10_000)[0]).toBe('a')
})

test('an address that was avoided is probed by one connection in ten seconds, until it can be reached', () => {
  book.failed(at('b'), 0)
  const firsts = (nowMs: number) => [hosts(nowMs), hosts(nowMs), hosts(nowMs)].map(([first]) => first)
  expect(firsts(10_000)).toEqual(['b', 'a', 'c'])
  expect(hosts(10_000).at(-1)).toBe('b')
  book.failed(at('b'), 10_500)
  expect(firsts(20_499)).not.toContain('b')
  // No result: the connection was not needed any more.
  expect([firsts(20_500)[0], firsts(30_499).includes('b'), firsts(30_500)[0]]).toEqual(['b', false, 'b'])
  book.worked(at('b'))
  expect(firsts(30_500).toSorted()).toEqual(['a', 'b', 'c'])
})

test('of several that were avoided, each connection probes one', () => {
  for (const host of ['a', 'b']) book.failed(at(host), 0)
  expect([hosts(10_000), hosts(10_000), hosts(10_000)]).toEqual([
    ['a', 'c', 'b'],
    ['b', 'c', 'a'],
    ['c', 'a', 'b'],
  ])
})

test('an address that accepts connections and answers none is avoided until it answers', () => {
  book.timedOut(at('a'), 0, 1_000)
  expect(hosts(11_000)[0]).toBe('a')
  book.worked(at('a'))
  const orders = [hosts(11_000), hosts(11_000), hosts(11_000)]
  expect(orders.map(order => order.at(-1))).toEqual(['a', 'a', 'a'])
  book.answered(at('a'), 11_001)
  expect([hosts(11_001), hosts(11_001), hosts(11_001)].map(([first]) => first).toSorted()).toEqual([
    ...['a', 'b', 'c'],
  ])
})

test('a response over a connection from before does not show that a new connection can be made', () => {
  book.failed(at('a'), 0)
  book.answered(at('a'), 1)
  expect(book.stats(1)).toEqual({ usable: 2, avoided: 1 })
})

test('an address that was reached is no longer avoided', () => {
  book.failed(at('a'), 0)
  book.worked(at('a'))
  expect(hosts(0)).toEqual(['a', 'b', 'c'])
})

test('if no address can be reached, all are tried, the one that failed first before the others', () => {
  book.failed(at('b'), 0)
  book.failed(at('c'), 1)
  book.failed(at('a'), 2)
  expect(hosts(3)).toEqual(['b', 'c', 'a'])
})

test('the same host may serve on two ports', () => {
  book.replace([at('a', 1), at('a', 2), at('a', 1)])
  book.failed(at('a', 1), 0)
  expect(book.order(0)).toEqual([at('a', 2), at('a', 1)])
})

test('at most 64 addresses are used, and removed addresses leave no state', () => {
  book.failed(at('a'), 0)
  book.replace(Array.from({ length: 300 }, (_, index) => at(`10.0.0.${index}`)))
  expect(book.order(0)).toHaveLength(64)
  book.failed(at('a'), 0)
  book.replace([at('a')])
  expect(book.stats(0)).toEqual({ usable: 1, avoided: 0 })
})

test('a book is empty until it has addresses, and an order of none is none', () => {
  const empty = new AddressBook()
  expect([empty.isEmpty, empty.order(0), empty.stats(0)]).toEqual([true, [], { usable: 0, avoided: 0 }])
  expect(book.isEmpty).toBe(false)
})

test('an avoided address stays avoided while it is among the new ones, and is forgotten once it is not', () => {
  book.failed(at('a'), 0)
  book.replace([at('a'), at('d')])
  expect(hosts(0)).toEqual(['d', 'a'])
  book.replace([at('d')])
  book.replace([at('a'), at('d')])
  expect(book.stats(0)).toEqual({ usable: 2, avoided: 0 })
})

test('the rotation goes on after a time in which no address was usable', () => {
  for (const host of ['a', 'b', 'c']) book.failed(at(host), 0)
  expect(hosts(0)).toEqual(['a', 'b', 'c'])
  expect(hosts(10_000)).toEqual(['a', 'b', 'c'])
  expect(hosts(10_000)).toEqual(['b', 'c', 'a'])
})
