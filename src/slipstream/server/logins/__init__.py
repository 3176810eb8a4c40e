"""What logins ask beside the configuration: auth callouts, OpenID issuers, tokens of operators, slow passwords."""
