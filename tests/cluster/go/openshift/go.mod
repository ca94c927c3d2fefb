module kae.test/openshift

go 1.26.0

require github.com/openshift/api v0.0.0-20240124164020-e2ce40831f2e
