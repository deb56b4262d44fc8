import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { digestKey, importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { GITLEAKS, has } from '../support/tools.ts'

const signingKey = importSigningSecret(randomBytes(32))
const mint = (prefix = 'wsk_') => mintSecret(prefix, randomBytes(32), signingKey).reveal()

const patternOf = async (...args: string[]) => {
  const { code, stdout, stderr } = await runPosternHere(['keys', 'pattern', ...args])
  expect([code, stderr]).toEqual([0, ''])
  return stdout
}

describe('postern keys pattern', () => {
  test('prints a regular expression that finds whole keys in other text, and nothing that only resembles one', async () => {
    const pattern = new RegExp(await patternOf(), 'g')
    const key = mint()
    expect(`const key = "${key}"; // ${key}.`.match(pattern)).toEqual([key, key])
    for (const other of [
      key.slice(0, -1),
      `${key}a`,
      `x${key}`,
      key.replace('wsk_', 'wsk-'),
      digestKey(key),
    ]) {
      expect(other.match(pattern)).toBeNull()
    }
  })

  test('takes the prefix of the installation', async () => {
    const key = mint('acme_live-')
    expect(key).toMatch(new RegExp(await patternOf('--prefix', 'acme_live-')))
    const { stdout } = await runPosternHere(['keys', 'pattern'], { POSTERN_KEYS_PREFIX: 'acme_live-' })
    expect(key).toMatch(new RegExp(stdout))
  })

  test.each(['', '9a', "a'b", 'a\nb', 'a.*', 'a'.repeat(33)])('rejects the prefix %j', async prefix => {
    const { code, stdout, stderr } = await runPosternHere(['keys', 'pattern', '--prefix', prefix])
    expect([code, stdout]).toEqual([64, ''])
    expect(stderr).toContain('--prefix must be')
  })

  test('prints a custom detector of TruffleHog: a name, keywords that each key contains, and the pattern', async () => {
    const { detectors } = parse(await patternOf('--format', 'trufflehog'))
    expect(detectors).toEqual([
      { name: 'postern-api-key', keywords: ['wsk_'], regex: { key: await patternOf() } },
    ])
  })
})

describe.skipIf(!has(GITLEAKS))('gitleaks with the printed rule', () => {
  const run = async (folder: string, mode: 'git' | 'dir', prefix = 'wsk_') => {
    const config = join(temporaryDirectory(), 'gitleaks.toml')
    writeFileSync(config, await patternOf('--format', 'gitleaks', '--prefix', prefix))
    const report = join(temporaryDirectory(), 'report.json')
    const args = [mode, '--no-banner', '--config', config, '--report-format', 'json', '--report-path', report]
    const { status, stderr } = spawnSync('gitleaks', [...args, folder], { encoding: 'utf8', timeout: 60_000 })
    const findings = JSON.parse(readFileSync(report, 'utf8')) as { RuleID: string; Secret: string }[]
    return { status, stderr, found: findings.map(({ RuleID, Secret }) => [RuleID, Secret]) }
  }

  test.each(['wsk_', 'Acme_Live-'])(
    'finds a key with the prefix %s in the history of a repository, also after its deletion',
    async prefix => {
      const folder = temporaryDirectory()
      const git = (...args: string[]) =>
        execFileSync('git', [
          '-C',
          folder,
          '-c',
          'user.name=Test',
          '-c',
          'user.email=test@example.com',
          ...args,
        ])
      const key = mint(prefix)
      git('init', '--quiet')
      writeFileSync(
        join(folder, 'deploy.sh'),
        `curl -H "Authorization: Bearer ${key}" https://api.example.com\n`,
      )
      git('add', '.')
      git('commit', '--quiet', '--message', 'Add a deployment script')
      writeFileSync(join(folder, 'deploy.sh'), 'echo moved\n')
      git('commit', '--quiet', '--all', '--message', 'Remove it')
      const { status, found } = await run(folder, 'git', prefix)
      expect([status, found]).toEqual([1, [['postern-api-key', key]]])
    },
  )

  test('finds nothing in 10 MB of other text: source code, base64, digests, hints, and broken keys', async () => {
    const folder = temporaryDirectory()
    mkdirSync(join(folder, 'text'))
    const sources = readFileSync(new URL('../../package-lock.json', import.meta.url), 'utf8')
    const lines = ['wsk_…x7Qf', mint().slice(0, -1), `${mint()}0`, `wsk_${'-'.repeat(54)}`, digestKey(mint())]
    for (let part = 0; part < 10; part++) {
      const random = randomBytes(700_000).toString('base64')
      const text = `${lines.join('\n')}\n${random}\n${sources.slice(0, 100_000)}\n`
      writeFileSync(
        join(folder, 'text', `part-${part}.txt`),
        text.padEnd(1_000_000, `${digestKey(text)} wsk_\n`),
      )
    }
    const { status, stderr, found } = await run(folder, 'dir')
    expect([status, found]).toEqual([0, []])
    expect(Number(/scanned ~\S*?(\d+) bytes/.exec(stderr)?.[1])).toBeGreaterThan(10_000_000)
  })
})
