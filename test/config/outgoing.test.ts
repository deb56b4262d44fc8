import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/print-config.ts'
import { configOf, mistakesOf } from './examples.ts'

describe('the proxy of outgoing calls', () => {
  test('comes from the variables that other programs read, in both cases', () => {
    const upper = { HTTPS_PROXY: 'http://a:3128', HTTP_PROXY: 'https://b', NO_PROXY: 'c.example, .d.example' }
    const lower = { https_proxy: 'http://a:3128', http_proxy: 'https://b', no_proxy: 'c.example .d.example' }
    for (const environment of [upper, lower]) {
      expect(configOf({ environment }).outgoing).toEqual({
        httpsProxy: 'http://a:3128',
        httpProxy: 'https://b',
        noProxy: ['c.example', '.d.example'],
      })
    }
    expect(configOf().outgoing).toEqual({ noProxy: [] })
  })

  test('is the one in lower case where both are set, as with curl; an empty variable counts as not set', () => {
    const both = { https_proxy: 'http://lower', HTTPS_PROXY: 'http://upper' }
    expect(configOf({ environment: both }).outgoing.httpsProxy).toBe('http://lower')
    const empty = { https_proxy: '', HTTPS_PROXY: 'http://upper', HTTP_PROXY: ' ', NO_PROXY: '' }
    expect(configOf({ environment: empty }).outgoing).toEqual({ httpsProxy: 'http://upper', noProxy: [] })
  })

  test.each([
    'not an address',
    'proxy.internal:3128',
    'socks5://proxy:1080',
    'http://',
    'http://proxy:99999',
    'http://proxy/path',
    'http://proxy?x',
    'http://user:100%@proxy',
  ])('is refused at start by the name of its variable, and not repeated: %s', address => {
    const problem = /must be an http: or https: address of a proxy, such as http:\/\/proxy\.internal:3128/
    for (const name of ['HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy']) {
      const [mistake, ...others] = mistakesOf({ environment: { [name]: address } })
      expect(mistake).toMatch(new RegExp(`^${name} ${problem.source}`))
      expect(others).toEqual([])
    }
  })

  test.each(['http://host', '10.0.0.0/33', 'host:0'])(
    'has exceptions that can match a host: %s is refused by the name of the variable',
    entry => {
      expect(mistakesOf({ environment: { NO_PROXY: `ok.example,${entry}` } })).toEqual([
        expect.stringMatching(/^NO_PROXY, at 1 must be/),
      ])
    },
  )

  test('is printed without its password', () => {
    const config = configOf({ environment: { HTTPS_PROXY: 'http://user:s3cret@proxy:3128' } })
    expect(printConfig(config)).toContain('httpsProxy: http://user:[hidden]@proxy:3128')
    expect(printConfig(config)).not.toContain('s3cret')
  })
})
