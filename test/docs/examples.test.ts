import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { settings } from '../../src/config/settings.ts'
import { fileWith, mistakesOf, SIGNING_SECRET } from '../config/examples.ts'
import { assertionKeyPem } from '../support/assertion-keys.ts'
import { selfSigned } from '../support/certificates.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const SECTIONS = new Set(settings.map(({ path }) => path.split('.')[0]))
const certificates = await selfSigned()
const CERTIFICATE = readFileSync(certificates.certFile, 'utf8')
const KEY = readFileSync(certificates.keyFile, 'utf8')
certificates.remove()

interface Example {
  readonly page: string
  readonly text: string
}

/** Blocks whose top level holds settings. Values of the chart, which its own tests render, are in docs/behind or begin with a comment that says so. */
const EXAMPLES: readonly Example[] = globSync('docs/{*,operate/*}.md', { cwd: ROOT }).flatMap(page =>
  [...readFileSync(`${ROOT}${page}`, 'utf8').matchAll(/^( *)```yaml\n([\s\S]*?)^ *```/gm)]
    .map(([, indent = '', text = '']) => ({
      page,
      text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }))
    .filter(({ text }) => !text.startsWith('# values of the chart'))
    .filter(({ text }) => Object.keys(parse(text) as object).every(section => SECTIONS.has(section))),
)

/** The example with files that exist in place of those that it names. */
function withFiles(text: string): string {
  return text.replaceAll(/\/(?:run\/(?:secrets|tls)|etc\/postern)\/[\w.-]+/g, path =>
    fileWith(contentOf(basename(path))),
  )
}

function contentOf(name: string): string {
  if (name.endsWith('-key.pem')) return KEY
  if (name.endsWith('-assertion.pem')) return assertionKeyPem()
  if (name.endsWith('-redis-url')) return 'redis://redis.ap.internal:6379'
  if (name.endsWith('.schema.json')) return '{}'
  return name.endsWith('.pem') ? CERTIFICATE : SIGNING_SECRET
}

test('the pages have examples of settings', () => {
  expect(new Set(EXAMPLES.map(({ page }) => page)).size).toBeGreaterThan(6)
})

test.each(EXAMPLES)('an example of $page is accepted', ({ text }) => {
  const environment = {
    // Each form of Redis is set alone.
    ...(/^(?:redis|regions):/m.test(text) ? { POSTERN_REDIS_URL: undefined } : {}),
    ...(/^keyService:/m.test(text) && !text.includes('tokenFile:')
      ? { POSTERN_KEY_SERVICE_TOKEN: SIGNING_SECRET }
      : {}),
  }
  const planes = /^regions:/m.test(text) ? (['console'] as const) : undefined
  expect(mistakesOf({ file: withFiles(text), environment, ...(planes && { planes }) })).toEqual([])
})
