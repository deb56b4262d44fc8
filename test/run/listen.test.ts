import Fastify from 'fastify'
import { expect, test, vi } from 'vitest'
import { SettingError, StartError } from '../../src/domain/errors.ts'
import { listen } from '../../src/run/listen.ts'

const failing = (code: string) => {
  const app = Fastify()
  vi.spyOn(app, 'listen').mockRejectedValue(Object.assign(new Error(code), { code }))
  return listen(app, 'gateway', { host: '127.0.0.1', port: 80 }).catch((error: unknown) => error)
}

test('a port that the user may never take is a mistake in the setting; one that is in use can become free', async () => {
  expect(await failing('EACCES')).toBeInstanceOf(SettingError)
  expect(await failing('EACCES')).toEqual(
    new SettingError('gateway.port: this user may not listen on port 80. Set a port above 1023'),
  )
  for (const code of ['EADDRINUSE', 'EADDRNOTAVAIL']) {
    expect(await failing(code)).toBeInstanceOf(StartError)
    expect(await failing(code)).not.toBeInstanceOf(SettingError)
  }
})
