import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { Reloader } from '../../src/run/reloader.ts'
import { signingSecret } from '../config/examples.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { metricValue } from '../support/metric-value.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

/** Settings with one secret in a file, and a reloader of them. */
function startReloader() {
  const file = join(temporaryDirectory(), 'token')
  writeFileSync(file, 'first-token-of-the-tests')
  const environment: Record<string, string> = {
    POSTERN_KEYS_SIGNING_SECRETS: signingSecret(1),
    POSTERN_UPSTREAM_URL: 'http://files',
    POSTERN_KEY_SERVICE_URL: 'http://key-service',
    POSTERN_KEY_SERVICE_TOKEN_FILE: file,
  }
  const load = () => loadConfig({ environment, planes: ['gateway'] })
  const loaded = load()
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  const log: Record<string, unknown>[] = []
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) })
  const metrics = createMetrics()
  const { config, files } = loaded
  const reloader = new Reloader({ config, files, load, logger, metrics, clock: new ManualClock() })
  const tokens: (string | undefined)[] = []
  const onReload = (config: Config) => () => void tokens.push(config.keyService.token?.join())
  return {
    reloader,
    environment,
    logger,
    log,
    tokens,
    onReload,
    change: (text: string) => writeFileSync(file, text),
    isGood: () => metricValue(metrics.configReloadSuccess),
  }
}

describe('a part of a process that registers for reloads', () => {
  test('receives changes, and is not called without one', async () => {
    const { reloader, change, tokens, onReload, log } = startReloader()
    reloader.onReload(onReload)
    await reloader.checkFiles()
    expect([tokens, log]).toEqual([[], []])
    change('second-token-of-the-tests')
    await reloader.checkFiles()
    await reloader.checkFiles()
    expect(tokens).toEqual(['second-token-of-the-tests'])
    expect(log).toMatchObject([{ msg: 'settings reloaded', changed: ['keyService.token'] }])
  })

  test('late, while the process is being built, receives earlier changes', async () => {
    const { reloader, change, tokens, onReload } = startReloader()
    change('second-token-of-the-tests')
    await reloader.checkFiles()
    reloader.onReload(onReload)
    expect(tokens).toEqual(['second-token-of-the-tests'])
  })

  test('keeps its settings if another part rejects the new ones, and receives the next valid ones', async () => {
    const { reloader, change, tokens, onReload, log, isGood } = startReloader()
    reloader.onReload(onReload)
    reloader.onReload(({ keyService }) => {
      if (keyService.token?.[0] === 'second-token-of-the-tests')
        throw new Error('keyService.token: is of no use')
      return () => {}
    })
    change('second-token-of-the-tests')
    await reloader.checkFiles()
    expect([tokens, await isGood()]).toEqual([[], 0])
    expect(log.at(-1)).toMatchObject({ level: 50, problem: 'keyService.token: is of no use' })
    change('third-token-of-the-tests')
    await reloader.checkFiles()
    expect([tokens, await isGood()]).toEqual([['third-token-of-the-tests'], 1])
  })

  test('does not reload a file again while it stays invalid', async () => {
    const { reloader, change, log, isGood } = startReloader()
    change('two\nlines')
    for (let look = 0; look < 3; look++) await reloader.checkFiles()
    expect([log.length, await isGood()]).toEqual([1, 0])
    // After the old content is restored, the file is read again.
    change('first-token-of-the-tests')
    await reloader.checkFiles()
    expect(await isGood()).toBe(1)
  })
})

test('a reload that changes the log level is logged at the former or the new level, whichever shows more', () => {
  const { reloader, environment, logger, log } = startReloader()
  reloader.onReload(next => () => {
    logger.level = next.log.level
  })
  const reloadAt = (level: string) => {
    environment['POSTERN_LOG_LEVEL'] = level
    log.length = 0
    reloader.reload({ signal: 'SIGHUP' })
    return log.map(({ msg }) => msg)
  }
  expect(reloadAt('warn')).toEqual(['settings reloaded'])
  expect(reloadAt('warn')).toEqual([])
  environment['POSTERN_GATEWAY_PORT'] = '18080'
  expect(reloadAt('error')).toEqual(['changed settings take effect after a restart'])
  expect(reloadAt('info')).toEqual(['settings reloaded', 'changed settings take effect after a restart'])
})
