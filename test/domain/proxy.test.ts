import { describe, expect, test } from 'vitest'
import { isNoProxyEntry, proxyFor } from '../../src/domain/proxy.ts'

const httpsProxy = 'http://secure.proxy:3128'
const httpProxy = 'http://plain.proxy:3128'

function hostOf(url: string, noProxy: readonly string[] = []): string | null {
  return proxyFor(new URL(url), { httpsProxy, httpProxy, noProxy })?.url.hostname ?? null
}

test('an https call takes the proxy for https, a plain one that for http, and neither takes the other’s', () => {
  expect(hostOf('https://login.example/')).toBe('secure.proxy')
  expect(hostOf('http://login.example/')).toBe('plain.proxy')
  expect(proxyFor(new URL('https://login.example'), { httpProxy, noProxy: [] })).toBeNull()
  expect(proxyFor(new URL('http://login.example'), { httpsProxy, noProxy: [] })).toBeNull()
})

describe('a call goes past the proxy where NO_PROXY names its host', () => {
  test.each([
    ['*', 'https://anything.example'],
    ['example.com', 'https://example.com'],
    ['example.com', 'https://login.example.com'],
    ['.example.com', 'https://login.example.com'],
    ['.example.com', 'https://example.com'],
    ['*.example.com', 'https://a.b.example.com'],
    ['EXAMPLE.com', 'https://login.Example.COM'],
    ['example.com.', 'https://login.example.com'],
    ['example.com', 'https://login.example.com.'],
    ['.svc.cluster.local', 'http://collector.monitoring.svc.cluster.local:4318'],
    ['localhost', 'http://localhost:9000'],
    ['example.com:443', 'https://example.com'],
    ['example.com:8443', 'https://example.com:8443'],
    ['example.com:80', 'http://example.com'],
    ['10.1.2.3', 'https://10.1.2.3'],
    ['10.1.2.3:8443', 'https://10.1.2.3:8443'],
    ['10.0.0.0/8', 'https://10.1.2.3'],
    ['::1', 'https://[::1]:8443'],
    ['[::1]', 'https://[0:0:0:0:0:0:0:1]'],
    ['[fd00::5]:8443', 'https://[fd00::5]:8443'],
    ['fd00::/8', 'https://[fd00::5]'],
    ['10.0.0.0/8', 'https://[::ffff:10.1.2.3]'],
  ])('%s: %s', (entry, url) => {
    expect(hostOf(url, [entry])).toBeNull()
    expect(hostOf(url, ['other.example', entry])).toBeNull()
    expect(isNoProxyEntry(entry)).toBe(true)
  })

  test.each([
    ['example.com', 'https://notexample.com'],
    ['example.com', 'https://example.com.evil.test'],
    ['.example.com', 'https://notexample.com'],
    ['example.com:8443', 'https://example.com'],
    ['10.0.0.0/8', 'https://11.1.2.3'],
    ['10.1.2.3', 'https://10.1.2.30'],
    ['10.0.0.0/8', 'https://10.example.com'],
    ['fd00::/8', 'https://[2001:db8::1]'],
    ['::1:8443', 'https://[::1]:8443'],
  ])('and not where it does not: %s: %s', (entry, url) => {
    expect(hostOf(url, [entry])).not.toBeNull()
  })
})

test.each([
  '',
  'http://example.com',
  'example.com/path',
  '10.0.0.0/33',
  '169.254/16',
  'exa*ple.com',
  '*example.com',
  'example.com:0',
  'example.com:99999',
  'a b',
  '10.0.0.1-10.0.0.9',
  '10.1.',
  '[fe80::1%eth0]',
  '[example.com]',
])('what could match no host is no entry of NO_PROXY: %s', entry => {
  expect(isNoProxyEntry(entry)).toBe(false)
})
