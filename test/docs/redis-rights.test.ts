import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import {
  CONSOLE_RIGHTS,
  COUNTER_RIGHTS,
  GATEWAY_RIGHTS,
  LIMIT_RIGHTS,
  SENTINEL_RIGHTS,
  selectorOf,
} from '../support/redis-users.ts'

const PAGE = new URL('../../docs/redis.md', import.meta.url)

const ROWS = (readFileSync(PAGE, 'utf8').split('\n## Users and rights\n')[1]?.split('\n## ')[0] ?? '')
  .split('\n')
  .filter(line => line.startsWith('| '))
  .map(line => line.replaceAll('\\|', 'I').split('|').slice(1, 4))

function rightsIn(where: string): (readonly string[])[] {
  const cells = ROWS.find(([first]) => first?.includes(where))?.slice(1) ?? []
  return cells.map(cell =>
    [...cell.matchAll(/`([^`]*)`/g)].flatMap(([, text = '']) => text.replaceAll('I', '|').split(' ')),
  )
}

it('docs/redis.md grants the Redis users the rights that the tests use', () => {
  const single = [GATEWAY_RIGHTS.standalone, CONSOLE_RIGHTS.standalone]
  expect(rightsIn('single server')).toEqual(single)
  expect([GATEWAY_RIGHTS.sentinel, CONSOLE_RIGHTS.sentinel]).toEqual(single)
  const more = rightsIn('node of a cluster')
  expect([GATEWAY_RIGHTS.cluster, CONSOLE_RIGHTS.cluster]).toEqual(
    single.map((rights, plane) => [...rights, ...(more[plane] ?? [])]),
  )
  expect(rightsIn('only where `limits.policies` or `limits.plans` is set')).toEqual([
    selectorOf(LIMIT_RIGHTS).split(' '),
    selectorOf(COUNTER_RIGHTS).split(' '),
  ])
  expect(rightsIn('each Sentinel')).toEqual([SENTINEL_RIGHTS, SENTINEL_RIGHTS])
})
