import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { settings } from '../../src/config/settings.ts'
import { signingSecret } from '../config/examples.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, SYSTEMD } from '../support/tools.ts'

const read = (file: string) => readFileSync(new URL(`../../docs/operate/${file}`, import.meta.url), 'utf8')

describe.each(['gateway', 'console'] as const)('the systemd unit of the %s', plane => {
  const name = `postern-${plane}.service`
  const unit = read(`systemd/${name}`)
  /** The unit with a program that is on this machine. */
  const installed = () => {
    const file = join(temporaryDirectory(), name)
    writeFileSync(file, unit.replace('/opt/postern/bin/postern', '/bin/true'))
    return file
  }

  test.skipIf(!has(SYSTEMD))('has no mistake that systemd finds', () => {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', installed()], {
      encoding: 'utf8',
    })
    expect([status, stderr]).toEqual([0, ''])
  })

  test.skipIf(!has(SYSTEMD))('is at most as exposed as the page says', () => {
    const words = ['security', '--offline=true', '--no-pager', installed()]
    const text = execFileSync('systemd-analyze', words, { encoding: 'utf8' })
    const [, measured] = /Overall exposure level for \S+: (\d+\.\d)/.exec(text) ?? []
    const [, claimed] = /an exposure of (\d+\.\d) of 10/.exec(read('systemd.md')) ?? []
    expect(Number(measured)).toBeLessThanOrEqual(Number(claimed))
  })

  test('gives its secrets to settings, with which and the file of the page it starts', () => {
    const directory = temporaryDirectory()
    const secrets: Readonly<Record<string, string>> = {
      'signing-secret': signingSecret(1),
      'admin-token': signingSecret(2),
      'key-service-token': signingSecret(3),
      'database-url': 'sqlite:/var/lib/postern/postern.db',
    }
    for (const [, credential = ''] of unit.matchAll(/^LoadCredential=([^:]+):/gm)) {
      writeFileSync(join(directory, credential), secrets[credential] ?? '')
    }
    const given = [...unit.matchAll(/^Environment=(POSTERN_[^=]+)=(.*)$/gm)]
    const environment = Object.fromEntries(
      given.map(([, variable = '', value = '']) => [variable, value.replace('%d', directory)]),
    )
    const configFile = join(directory, 'postern.yaml')
    const [, yaml = ''] = /```yaml\n([\s\S]*?)```/.exec(read('systemd.md')) ?? []
    writeFileSync(configFile, yaml.replaceAll(/^ {3}/gm, ''))
    const loaded = loadConfig({ environment, configFile, planes: [plane] })
    expect(loaded.ok ? [] : loaded.problems).toEqual([])
  })

  test('leaves time for what is in flight before it is killed', () => {
    const defaultOf = (path: string) => Number(settings.find(one => one.path === path)?.schema.default)
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? []
    expect(Number(seconds) * 1000).toBeGreaterThan(defaultOf('drain.delayMs') + defaultOf('drain.timeoutMs'))
  })
})
