import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { settings } from '../../src/config/settings.ts'
import { SETTINGS_PAGE, settingsTable, withCurrentSettings } from './settings-section.ts'

const TEXT = readFileSync(SETTINGS_PAGE, 'utf8')

describe('the settings reference', () => {
  it('is current (npm run docs)', () => {
    expect(TEXT).toBe(withCurrentSettings(TEXT))
  })

  it.each(settings.map(({ path, environment }) => [path, environment]))(
    'has one row for %s (npm run docs)',
    (path, environment) => {
      const rows = TEXT.split('\n').filter(line => line.startsWith(`| \`${path}\` |`))
      expect(rows).toHaveLength(1)
      expect(rows[0]).toContain(`\`${environment}\``)
      // Four cells, and no character that breaks them.
      expect(rows[0]?.split(/(?<!\\)\|/)).toHaveLength(6)
    },
  )

  it.each([
    ['gateway.port', '`8080`'],
    ['redis.url', 'none'],
    ['gateway.trustedProxies', 'none'],
    ['upstream.headers', 'none'],
    ['redis.heartbeats', '`true`'],
    ['gateway.responseHeaders', '`Content-Type`, `Content-Encoding`'],
  ])('shows the default of %s: %s', (path, byDefault) => {
    expect(TEXT).toMatch(new RegExp(`^\\| \`${path}\` \\| [^|]* \\| ${byDefault}`, 'm'))
  })
})

describe('writing the settings reference', () => {
  it('escapes a default that would break its cell', () => {
    const [setting] = settings
    if (setting === undefined) throw new Error('There are no settings')
    const schema = { ...setting.schema, default: 'sqlite:a|b' }
    expect(settingsTable([{ ...setting, schema }])).toContain('| `sqlite:a\\|b` |')
  })

  it('changes nothing outside the markers', () => {
    const written = withCurrentSettings('before\n<!-- settings -->\nold text\n<!-- /settings -->\nafter\n')
    expect(written).toMatch(
      /^before\n<!-- settings -->\n\n\| setting \|[\s\S]*\|\n\n<!-- \/settings -->\nafter\n$/,
    )
    expect(written).not.toContain('old text')
  })

  it.each(['', '<!-- settings -->', '<!-- /settings --> <!-- settings -->'])(
    'requires both markers: %j',
    text => {
      expect(() => withCurrentSettings(text)).toThrow(/must hold/)
    },
  )
})
