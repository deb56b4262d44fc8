import { writeResultSections } from '../bench/pages.ts'

writeResultSections()
