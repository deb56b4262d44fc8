import { describe, expect, test } from 'vitest'
import { namesOriginal, type ProxyKind, readOriginal } from '../../src/gateway/check-mode.ts'

const TARGET = '/api/v1/workspaces/ws_1?limit=5'
const read = (proxy: ProxyKind, fields: readonly string[], url = '/', method = 'GET', prefix = '') =>
  readOriginal(proxy, { method, url, rawHeaders: fields }, prefix)

const BY_HEADER: readonly [ProxyKind, method: string, target: string][] = [
  ['nginx', 'X-Original-Method', 'X-Original-URI'],
  ['caddy', 'X-Forwarded-Method', 'X-Forwarded-Uri'],
  ['traefik', 'X-Forwarded-Method', 'X-Forwarded-Uri'],
  ['haproxy', 'x-original-method', 'x-original-uri'],
]

describe.each(BY_HEADER)('%s says what its client asked for in %s and %s', (proxy, method, target) => {
  test('which are read as they stand, although the check itself is another request', () => {
    expect(read(proxy, [method, 'HEAD', target, TARGET], '/check', 'POST')).toEqual({
      method: 'HEAD',
      target: TARGET,
    })
  })

  test.each<[string, string[]]>([
    ['no method', [target, TARGET]],
    ['no target', [method, 'GET']],
    ['an empty method', [method, '', target, TARGET]],
    ['an empty target', [method, 'GET', target, '']],
    ['two methods', [method, 'GET', method.toUpperCase(), 'GET', target, TARGET]],
    ['two targets', [method, 'GET', target, TARGET, target.toLowerCase(), TARGET]],
    ['an empty target beside one', [method, 'GET', target, '', target, TARGET]],
  ])('%s is refused', (_, fields) => {
    expect(read(proxy, fields, TARGET)).toBeNull()
  })

  test('the headers of other kinds, which a client could send, do not count', () => {
    const others = BY_HEADER.flatMap(([, ...names]) => names).filter(
      name => ![method, target].some(own => own.toLowerCase() === name.toLowerCase()),
    )
    expect(
      read(
        proxy,
        others.flatMap(name => [name, '/']),
      ),
    ).toBeNull()
    expect(
      read(proxy, [method, 'GET', target, TARGET, ...others.flatMap(name => [name, '/x'])])?.target,
    ).toBe(TARGET)
  })

  test('only these two may hold what the target holds', () => {
    expect([method, target].every(name => namesOriginal(proxy, name.toLowerCase()))).toBe(true)
    expect(namesOriginal(proxy, 'x-rewrite-url')).toBe(false)
  })
})

describe('envoy repeats the request line of its client', () => {
  test('so that no header counts', () => {
    const fields = BY_HEADER.flatMap(([, method, target]) => [method, 'GET', target, '/x'])
    expect(read('envoy', fields, TARGET, 'PUT')).toEqual({ method: 'PUT', target: TARGET })
    expect(namesOriginal('envoy', 'x-forwarded-uri')).toBe(false)
  })

  test('behind a prefix, if it adds one', () => {
    expect(read('envoy', [], `/check${TARGET}`, 'GET', '/check')?.target).toBe(TARGET)
    expect(read('envoy', [], '/check/', 'GET', '/check')?.target).toBe('/')
  })

  test.each(['/check', '/checks/api', TARGET, '/', '/CHECK/api', '/check?x=/', '/api/check/x'])(
    'a target without the prefix is refused: %s',
    url => {
      expect(read('envoy', [], url, 'GET', '/check')).toBeNull()
    },
  )
})
