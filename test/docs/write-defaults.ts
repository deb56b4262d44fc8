import { writeFileSync } from 'node:fs'
import { DEFAULTS_FILE, defaultSettings } from './default-settings.ts'

writeFileSync(DEFAULTS_FILE, defaultSettings())
