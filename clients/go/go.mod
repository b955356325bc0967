module forum-verify

go 1.19
