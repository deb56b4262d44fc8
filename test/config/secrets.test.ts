import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { parse } from 'yaml'
import { formats } from '../../src/config/formats.ts'
import { printConfig } from '../../src/config/print-config.ts'
import { type Setting, settings } from '../../src/config/settings.ts'
import { runs } from '../support/runs.ts'
import { configOf, fileWith, mistakesOf, SIGNING_SECRET, signingSecret } from './examples.ts'

const CANARY = 'canary'
/** Letters and digits, so that no encoding can change how it looks. */
const canary = fc.stringMatching(/^[A-Za-z0-9]{20,30}$/).map(text => CANARY + text)
const secrets = settings.filter(setting => setting.secret)

/** A value of the setting with the secret in the place where one is. */
function lawfulValue({ path }: Setting, secret: string): string {
  switch (path) {
    case 'redis.url':
      return `redis://user:${secret}@redis:6379/1`
    case 'database.url':
      return `sqlite:keys.db?key=${secret}`
    case 'outgoing.httpsProxy':
    case 'outgoing.httpProxy':
      return `http://user:${secret}@proxy:3128`
    case 'upstream.headers':
      return `{ "X-Token": "${secret}" }`
    case 'keys.signingSecrets':
      return Buffer.from(secret + signingSecret(1)).toString('base64')
    case 'console.webhook.secret':
      return Buffer.from(secret.padEnd(30, '0')).toString('base64')
    default:
      return secret
  }
}

/** What a secret cannot be without. */
const COMPANIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'console.webhook.secret': { POSTERN_CONSOLE_WEBHOOK_URL: 'https://hooks.example.com' },
}

describe('a secret is never printed', () => {
  it.each(secrets.map(setting => [setting.path, setting] as const))('%s', (_, setting) => {
    fc.assert(
      fc.property(canary, secret => {
        const value = lawfulValue(setting, secret)
        const environment = { ...COMPANIONS[setting.path], [setting.environment]: value }
        const printed = printConfig(configOf({ environment }))
        expect(printed).not.toContain(secret)
        expect(printed).not.toContain(Buffer.from(secret).toString('base64').slice(0, 20))
        expect(printed).toContain('[hidden]')
      }),
      { numRuns: runs(5, 20) },
    )
  })

  it('also in unusual names of an address', () => {
    const address = fc
      .record({
        scheme: fc.constantFrom('redis', 'rediss', 'REDIS', 'Rediss', ' redis', '\nredis', 're\tdis'),
        user: fc.constantFrom('', 'user', 'us%40er', 'u:x'),
        before: fc.constantFrom('', '@', ':', '/', '#', '?', '\n', '\t', '%40', ' '),
        after: fc.constantFrom('', '@', ':', '\n', '%2f', ' '),
        rest: fc.constantFrom('', '/0', '?db=1', '/0?x=y@z', '#x'),
        secret: canary,
      })
      .map(
        ({ scheme, user, before, after, rest, secret }) =>
          `${scheme}://${user}:${before}${secret}${after}@host:1${rest}`,
      )
    const config = configOf()
    let printed = 0
    fc.assert(
      fc.property(address, address => {
        if (!formats['redis-url']?.accepts(address)) return
        printed++
        expect(printConfig({ ...config, redis: { ...config.redis, url: address } })).not.toContain(CANARY)
      }),
      { numRuns: runs(500, 2000) },
    )
    expect(printed).toBeGreaterThan(200)
  })

  it('and the printed settings can be loaded again', () => {
    const environment = {
      POSTERN_REDIS_URL: 'redis://user:pass@redis:6379/1',
      POSTERN_KEY_SERVICE_TOKEN: 'x'.repeat(20),
    }
    const printed = parse(printConfig(configOf({ environment }))) as Record<string, Record<string, unknown>>
    expect(printed['redis']?.['url']).toBe('redis://user:[hidden]@redis:6379/1')
    expect(printed['keyService']?.['token']).toEqual(['[hidden]'])
    expect(printed['keys']?.['signingSecrets']).toEqual(['[hidden]'])
    expect(printed['database']?.['url']).toBe('sqlite:postern.db')
    expect(printed['gateway']).toEqual(configOf().gateway)
    expect(Object.keys(printed['routes'] ?? {})).toEqual(configOf().routes.map(({ name }) => name))
  })

  it.each(['redis://redis:6379', 'rediss://user@[::1]:1/0', 'redis://h'])(
    'an address without one stays as it is: %s',
    url => {
      expect(printConfig(configOf({ environment: { POSTERN_REDIS_URL: url } }))).toContain(`url: ${url}\n`)
    },
  )

  it('printing does not change the settings', () => {
    const config = configOf()
    printConfig(config)
    expect(config.keys.signingSecrets).toEqual([SIGNING_SECRET])
  })
})

describe('a problem never repeats the value of a secret', () => {
  /** Every way in which a value can be wrong, with the secret in it. */
  const spoilt = fc.constantFrom(
    '# #',
    '#"',
    ' #é',
    '#\\',
    '{ a: #',
    '[#',
    '&#',
    'http://#',
    '{ "X Y": "#" }',
    '{ "X-Y": "#é" }',
    '["#"]',
    '- #: -',
    '{ X-Y:# }',
    '{ X-Y: { file:# } }',
    '{ X-Y: { file: # } }',
  )

  it.each(secrets.map(setting => [setting.environment, setting] as const))('%s', (_, setting) => {
    fc.assert(
      fc.property(
        canary,
        spoilt,
        fc.constantFrom('environment', 'flag', 'file', 'secret file', 'name'),
        (secret, form, way) => {
          const value = form.replaceAll('#', secret)
          const [section = '', ...rest] = setting.path.split('.')
          const name = rest.join('.')
          const sources = {
            environment: { environment: { [setting.environment]: value } },
            flag: { flags: { [setting.flag]: value } },
            file: { file: `${section}:\n  ${name}: ${value}` },
            'secret file': { environment: { [`${setting.environment}_FILE`]: fileWith(value) } },
            // The secret itself where the name of its file belongs.
            name: { environment: { [`${setting.environment}_FILE`]: secret } },
          }[way]
          expect(mistakesOf(sources).join('\n')).not.toContain(CANARY)
        },
      ),
      { numRuns: runs(30, 100) },
    )
  })

  it('not even if the file that holds it is invalid YAML', () => {
    for (const text of [
      'keyService:\n  token: canary: x',
      'keyService: { token: "canary',
      'keyService:\n\ttoken: canary',
      'a: *canary',
      'a: !canary x',
      '%canary\n---\na: 1',
      'keyService: {token: x}\nkeyService: canary',
    ]) {
      const mistakes = mistakesOf({ file: text })
      expect(mistakes.length, text).toBeGreaterThan(0)
      expect(mistakes.join(), text).not.toContain('canary')
    }
  })

  it('and the YAML parser prints nothing', () => {
    const warn = vi.spyOn(process, 'emitWarning')
    mistakesOf({ file: 'a: !canary x' })
    mistakesOf({ file: '%canary\n---\na: 1', environment: { POSTERN_ROUTES: '[!canary x]' } })
    expect(warn).not.toHaveBeenCalled()
    warn.mockRestore()
  })
})

describe('a secret that is set but empty is rejected', () => {
  const blank = ['', ' ', '\n']
  const yamlOf = (path: string, value: unknown) =>
    JSON.stringify(path.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value))

  it.each(secrets.map(setting => [setting.environment, setting] as const))(
    '%s, from wherever it comes',
    (environment, { path, flag }) => {
      const clean = { [environment]: undefined }
      for (const text of blank) {
        const ways: Parameters<typeof mistakesOf>[0][] = [
          // Those that other programs read, too, are empty by custom where there is no proxy.
          ...(environment.startsWith('POSTERN_')
            ? [
                { environment: { [environment]: text } },
                { environment: { ...clean, [`${environment}_FILE`]: text } },
              ]
            : []),
          { environment: { ...clean, [`${environment}_FILE`]: fileWith(text) } },
          { environment: clean, flags: { [flag]: text } },
          { environment: clean, flags: { [`${flag}-file`]: fileWith(text) } },
          { environment: clean, file: yamlOf(path, text) },
          { environment: clean, file: yamlOf(path, null) },
          { environment: clean, file: yamlOf(`${path}File`, null) },
          { environment: clean, file: yamlOf(`${path}File`, fileWith(text)) },
        ]
        for (const way of ways) {
          const mistakes = mistakesOf(way).filter(mistake => mistake.includes('is set but empty'))
          expect(mistakes, JSON.stringify(way)).toHaveLength(1)
        }
      }
    },
  )

  it('also an empty list, and the empty file of a header', () => {
    const environment = { POSTERN_KEYS_SIGNING_SECRETS: undefined }
    for (const planes of [[], ['gateway'], ['console']] as const) {
      const opaque = 'keys: { format: opaque, signingSecrets: [] }'
      expect(mistakesOf({ environment, file: opaque, planes })).toEqual([
        expect.stringMatching(/settings\.yaml:1: keys\.signingSecrets is set but empty/),
      ])
    }
    const commas = {
      POSTERN_KEYS_SIGNING_SECRETS: undefined,
      POSTERN_KEYS_SIGNING_SECRETS_FILE: fileWith(',\n,'),
    }
    expect(mistakesOf({ environment: commas })).toEqual([expect.stringMatching(/is set but empty/)])
    expect(mistakesOf({ file: `upstream: { headers: { X-T: { file: '${fileWith(' ')}' } } }` })).toEqual([
      expect.stringMatching(/^upstream\.headers\.X-T is set but empty/),
    ])
  })

  it('but not one that is not set, or that a later source replaces', () => {
    expect(mistakesOf({ file: 'upstream: { headers: {} }' })).toEqual([])
    expect(mistakesOf({ file: 'keys: { signingSecrets: [] }' })).toEqual([])
    const flags = { '--console-admin-token': 'x'.repeat(20) }
    expect(mistakesOf({ environment: { POSTERN_ADMIN_TOKEN: '' }, flags })).toEqual([])
  })
})
