import { ensureRedis } from './redis-program.ts'
import { missingTools } from './tools.ts'

/** Runs once before all suites: finds a Redis, or fetches one. */
export default async function setup(): Promise<void> {
  await ensureRedis()
  const missing = missingTools()
  if (missing !== '' && process.env['CI'] === 'true') {
    throw new Error(`With CI=true no suite may be left out, but these tools are missing: ${missing}`)
  }
}
